"""Why an alert fires: its value, what was expected, its peers, in figures, words and a picture."""
