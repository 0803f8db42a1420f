"""How unlike its own past an element is: the model behind `anomaly_score`."""
