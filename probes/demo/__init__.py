"""`stallwatch demo`: a job, a link that begins to lose packets, and the alert about it."""
