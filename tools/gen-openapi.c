/* Prints the OpenAPI document of the HTTP interface, as the server answers at /openapi.json. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocol/openapi.h"

int main(void) {
    size_t len;
    char *text = protocol_openapi_make("0.0.0", &len);
    if (text == NULL) {
        return 2;
    }
    bool whole = fwrite(text, 1, len, stdout) == len && putchar('\n') != EOF;
    free(text);
    return whole ? 0 : 2;
}
