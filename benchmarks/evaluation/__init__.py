"""The evaluation: everything that README, documents and paper state about what schedules bring."""
