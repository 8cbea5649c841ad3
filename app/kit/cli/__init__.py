"""What the commands of every capability share."""
