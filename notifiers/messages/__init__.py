"""A notification as a person reads it at three in the morning: subject, text and HTML.

Label values come from the watched machine, so everything here is inert: one line where one line
is expected, no control characters, HTML escaped, and a length that no value can blow up.
"""
