"""Tuning: ground truth, the measurement of recall, and the choice of codes for a number of bytes."""
