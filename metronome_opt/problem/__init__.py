"""Problems of time slots, schedules, results and objectives."""
