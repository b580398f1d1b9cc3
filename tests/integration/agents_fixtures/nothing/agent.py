tools = "none"
