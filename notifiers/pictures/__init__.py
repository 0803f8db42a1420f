"""A picture of an alert's last hour, for the services that take one."""
