/* Writes the PYTHONPATH of an image into the file that is its argument.

   It runs as an init container of the image that trains, which may have no shell and any libc or none, so it is linked
   statically. It always ends with 0, because a training must not wait for it; without a PYTHONPATH it writes nothing. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    const char *found = getenv("PYTHONPATH");
    if (count != 2 || found == NULL) return 0;
    int file = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t length = (ssize_t)strlen(found);
    if (file >= 0 && write(file, found, (size_t)length) != length) unlink(arguments[1]);
    return 0;
}
