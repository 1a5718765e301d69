"""What a rule asks for: validation, matching, lists of what servers are asked."""
