"""Training steps that others measured at several placements, beside what placements predict."""
