"""Compatible jobs: those that can keep slots without ever overloading a link."""
