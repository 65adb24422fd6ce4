"""Memory in frameworks of others: one file each, which alone imports the framework."""
