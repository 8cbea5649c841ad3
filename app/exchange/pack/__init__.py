"""The pack of a job: everything to run its model elsewhere, and to show that its results are the same there."""
