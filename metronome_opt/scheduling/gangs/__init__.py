"""Places for whole gangs: pod by pod, by beam search, exactly."""
