"""From alerts to messages: groups with timers, what mutes them, and who has been told of what."""
