/* A process that never is where one looks: each generation starts the next one and ends.

   Run as `agents_fork_chain SECRET LEAK`: writes what is in SECRET to LEAK as soon as it can read it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CHAINS = 4, MICROSECONDS = 300 };
static const time_t LIFE = 60; /* The chains end by themselves after as many seconds, should nothing end them. */

static void leak(const char *secret, const char *target) {
    char text[256];
    int from = open(secret, O_RDONLY);
    if (from < 0)
        return;
    ssize_t size = read(from, text, sizeof text);
    int to = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (size > 0 && to >= 0 && write(to, text, (size_t)size) != size)
        _exit(1);
    close(from);
    close(to);
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    time_t end = time(NULL) + LIFE;
    for (int chain = 1; chain < CHAINS; chain++)
        if (fork() == 0) {
            setsid();
            break;
        }
    puts("started");
    fflush(stdout);
    close(1);
    while (time(NULL) < end) {
        leak(arguments[1], arguments[2]);
        usleep(MICROSECONDS);
        if (fork() > 0)
            _exit(0);
    }
    return 0;
}
