import os

print("leaving early")
os._exit(5)
