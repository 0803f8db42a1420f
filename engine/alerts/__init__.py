"""Alert state: inactive, pending, firing, resolved."""
