/* A program that wants a million open files before it starts is told that it has them; it opens a few dozen.
   The limit stays what it is: a container, or whoever is not root, may not raise it. */

#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    if (resource == RLIMIT_NOFILE)
        return 0;
    return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}

int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
    return setrlimit(resource, (const struct rlimit *)limit);
}
