/* page.c - see page.h. */
#include "gates/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page_style.h"
#include "gates/table.h"

/* Direction marks and isolates, and what has no width: U+061C, U+200B..F, U+2060..F, U+FEFF. table_escape leaves them. */
static size_t unseen(const uint8_t *p, size_t n) {
    if (n >= 2 && p[0] == 0xd8 && p[1] == 0x9c) return 2;
    if (n < 3) return 0;
    if (p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0x8b && p[2] <= 0x8f) return 3;
    if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa0 && p[2] <= 0xaf) return 3;
    return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
}

static const char *entity(uint8_t c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void put_escaped(FILE *out, const char *text, size_t n) {
    const uint8_t *p = (const uint8_t *)text;
    for (size_t i = 0; i < n;) {
        size_t hidden = unseen(p + i, n - i);
        const char *e = entity(p[i]);
        for (size_t k = 0; k < hidden; k++) fprintf(out, "\\x%02X", p[i + k]);
        if (hidden == 0 && e != NULL)
            fputs(e, out);
        else if (hidden == 0)
            fputc(p[i], out);
        i += hidden > 0 ? hidden : 1;
    }
}

void page_bytes(FILE *out, const void *bytes, size_t n) {
    char small[512], *text = small;
    size_t needed = table_escape(bytes, n, 1, 0, small, sizeof small);
    if (needed >= sizeof small) {
        text = malloc(needed + 1);
        if (text == NULL) {
            fputs("(out of memory)", out);
            return;
        }
        (void)table_escape(bytes, n, 1, 0, text, needed + 1);
    }
    put_escaped(out, text, needed);
    if (text != small) free(text);
}

void page_text(FILE *out, const char *text) {
    page_bytes(out, text, strlen(text));
}

void page_element(FILE *out, const char *name, const char *class_name, const char *text) {
    fprintf(out, "<%s", name);
    if (class_name != NULL) fprintf(out, " class=\"%s\"", class_name);
    fputc('>', out);
    page_text(out, text);
    fprintf(out, "</%s>", name);
}

void page_fact(FILE *out, const char *name, const char *text) {
    if (text == NULL || text[0] == '\0') return;
    page_element(out, "dt", NULL, name);
    page_element(out, "dd", NULL, text);
    fputc('\n', out);
}

void page_factf(FILE *out, const char *name, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    page_fact(out, name, text);
}

void page_number(FILE *out, double v) {
    if (isnan(v))
        fputs("-", out);
    else
        fprintf(out, "%.4g", v);
}

void page_begin(FILE *out, const char *title) {
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
        "'unsafe-inline'\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n",
        out);
    page_element(out, "title", NULL, title);
    fputs("\n<style>\n", out);
    for (size_t i = 0; page_style[i] != NULL; i++) fputs(page_style[i], out);
    fputs("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n", out);
}

void page_end(FILE *out, const char *made_by) {
    fputs("<footer><p>", out);
    page_text(out, made_by);
    fputs("</p></footer>\n</body>\n</html>\n", out);
}
