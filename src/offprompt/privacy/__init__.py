"""What may not be stored: found by form and check digit, and taken out before anything else sees the text."""
