/* status.h - how every library function of forkgate reports trouble.
 * Not a log: nothing here prints. Only a main() prints, once, and exits.
 * Idea: a function returns an enum status; the sentence that says what and where travels in a caller-owned
 * struct err, written once, at the place that knows most.
 * Source: ours. Exercise: ctest -R unit.status */
#ifndef FORKGATE_STATUS_H
#define FORKGATE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    STATUS_OK = 0,
    STATUS_USAGE,       /* the caller asked for something that makes no sense */
    STATUS_IO,          /* open, read, write, rename, full disk */
    STATUS_FORMAT,      /* bytes that are not what they claim to be: damaged dump, hostile GGUF, bad CSV */
    STATUS_UNSUPPORTED, /* well-formed, but not handled; refused by name */
    STATUS_SHAPE,       /* sizes that do not fit together */
    STATUS_NOMEM,       /* an allocation was refused */
    STATUS_DEVICE,      /* a refused launch, attribute, copy; a lost device */
    STATUS_INVALID,     /* numbers that cannot be judged: NaN, Inf, id outside the vocabulary */
    STATUS_LIMIT        /* a declared limit was reached: context full, too many sessions */
};

#define ERR_MESSAGE_BYTES 1024

/* One line, no newline, no trailing full stop; printable (control bytes of quoted input are escaped). */
struct err {
    char message[ERR_MESSAGE_BYTES];
};

/* Writes the message (printf style) and returns s, so that `return err_set(err, STATUS_IO, ...)` reads as one
 * sentence. err may be NULL: then only the status travels. */
enum status err_set(struct err *err, enum status s, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Puts "context: " before the message already in err (used when a caller knows the file or tensor name). */
enum status err_prefix(struct err *err, enum status s, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The status as one lower-case word ("ok", "io", ...), for tests and CSV. */
const char *status_name(enum status s);

#define RETURN_IF_ERROR(expr)                                                                                \
    do {                                                                                                     \
        enum status status_of_expr_ = (expr);                                                                \
        if (status_of_expr_ != STATUS_OK) return status_of_expr_;                                            \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
