"""The hub: adapters and sessions, runs and gates, journal and subscriptions. It knows no door and no harness."""
