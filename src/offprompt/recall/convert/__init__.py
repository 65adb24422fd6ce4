"""Files of other formats as text that can be parted into passages."""
