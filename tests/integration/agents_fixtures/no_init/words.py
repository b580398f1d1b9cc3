WORDS = "no package needed"
