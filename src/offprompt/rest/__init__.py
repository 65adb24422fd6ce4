"""The service over HTTP: parses, calls the service layer, renders. `offprompt serve` runs it."""
