/* page_style.h - the style sheet of the HTML report. Source: ours. */
#ifndef FORKGATE_PAGE_STYLE_H
#define FORKGATE_PAGE_STYLE_H

extern const char *const page_style[]; /* NULL-terminated pieces (a string literal may have 4095 bytes) */

#endif
