"""Objects of Kubernetes for schedules, as manifests in a folder."""
