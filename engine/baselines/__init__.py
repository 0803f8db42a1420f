"""What is normal for a series: statistics that learn from its past."""
