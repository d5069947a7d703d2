"""What tests and demonstrations share: fakes, the simulated world, a small real engine."""
