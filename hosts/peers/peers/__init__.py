"""pagecast beside what its users would pick instead, on a real device."""
