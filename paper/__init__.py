"""The paper: its text, and what is generated for it from recorded figures."""
