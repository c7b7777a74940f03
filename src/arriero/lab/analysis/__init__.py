"""What the records of a matrix say; pure."""
