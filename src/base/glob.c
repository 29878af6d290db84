/* Backtracks only to the last *: it can match everything that an earlier one could. */
#include "base/glob.h"

/* Whether the byte is in the class whose first byte after '[' is at *at; *at ends up behind the
 * ']'. A class that is not closed ends with the pattern. */
static bool class_has(struct tn_bytes pattern, uint32_t *at, uint8_t byte) {
    uint32_t i = *at;
    bool negated = i < pattern.len && pattern.at[i] == '^';
    bool found = false;
    i += negated;
    while (i < pattern.len && pattern.at[i] != ']') {
        if (pattern.at[i] == '\\' && i + 1 < pattern.len) {
            i++;
        }
        uint8_t low = pattern.at[i++];
        uint8_t high = low;
        if (i + 1 < pattern.len && pattern.at[i] == '-' && pattern.at[i + 1] != ']') {
            high = pattern.at[i + 1];
            i += 2;
        }
        found = found || (low <= high ? byte >= low && byte <= high : byte >= high && byte <= low);
    }
    *at = i < pattern.len ? i + 1 : i;
    return found != negated;
}

/* Whether the pattern's next part, which is no *, takes this byte; *at ends up behind it. */
static bool part_takes(struct tn_bytes pattern, uint32_t *at, uint8_t byte) {
    uint8_t part = pattern.at[(*at)++];
    if (part == '?') {
        return true;
    }
    if (part == '[') {
        return class_has(pattern, at, byte);
    }
    if (part == '\\' && *at < pattern.len) {
        part = pattern.at[(*at)++];
    }
    return part == byte;
}

bool tn_glob_match(struct tn_bytes pattern, struct tn_bytes text) {
    uint32_t p = 0;
    uint32_t t = 0;
    uint32_t star = UINT32_MAX; /* behind the last * */
    uint32_t star_text = 0;     /* where the rest after the star was last tried */
    while (t < text.len) {
        uint32_t part = p;
        if (p < pattern.len && pattern.at[p] == '*') {
            star = ++p;
            star_text = t;
        } else if (p < pattern.len && part_takes(pattern, &part, text.at[t])) {
            p = part;
            t++;
        } else if (star != UINT32_MAX) {
            p = star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*') {
        p++;
    }
    return p == pattern.len;
}

uint32_t tn_glob_steps(struct tn_bytes pattern, uint32_t text_len) {
    uint32_t before = 0;
    while (before < pattern.len && pattern.at[before] != '*') {
        before++;
    }
    uint32_t after = before < pattern.len ? pattern.len - before - 1 : 0;
    return 1 + before + after * text_len;
}
