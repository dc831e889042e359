/* status.c - see status.h. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message quotes file names, tensor names, token text: keep it one printable line. */
static void make_printable(char *s) {
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f) *s = '?';
    }
}

enum status err_set(struct err *err, enum status s, const char *format, ...) {
    if (err == NULL) return s;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    make_printable(err->message);
    return s;
}

enum status err_prefix(struct err *err, enum status s, const char *format, ...) {
    if (err == NULL) return s;
    char tail[ERR_MESSAGE_BYTES];
    memcpy(tail, err->message, sizeof tail);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    make_printable(err->message);
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof err->message - used, ": %s", tail);
    return s;
}

const char *status_name(enum status s) {
    switch (s) {
    case STATUS_OK:
        return "ok";
    case STATUS_USAGE:
        return "usage";
    case STATUS_IO:
        return "io";
    case STATUS_FORMAT:
        return "format";
    case STATUS_UNSUPPORTED:
        return "unsupported";
    case STATUS_SHAPE:
        return "shape";
    case STATUS_NOMEM:
        return "nomem";
    case STATUS_DEVICE:
        return "device";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_LIMIT:
        return "limit";
    }
    return "unknown";
}
