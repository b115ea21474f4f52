"""web: pages as they were when they were fetched."""
