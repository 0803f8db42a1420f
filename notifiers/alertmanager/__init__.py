"""An Alertmanager as receiver: it forgets what it is not told again and again."""
