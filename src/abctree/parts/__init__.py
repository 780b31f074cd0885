"""What is plugged in: priors, distances, utilities, schedules, partitioners, executors."""
