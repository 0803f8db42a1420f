"""The file that a job may copy to mark its steps."""
