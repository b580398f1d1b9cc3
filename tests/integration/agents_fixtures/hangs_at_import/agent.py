import time


def wait_for_a_server() -> None:
    time.sleep(600)


wait_for_a_server()
