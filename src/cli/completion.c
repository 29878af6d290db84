/* `tenure completion bash|zsh`: generates a script from the command table. The script reads names
 * of pools, leases, rules and sensors from the server, by `tenure complete` (complete_names.c). */
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/spell.h"
#include "kernel/types.h"

/* ---- The table as shell ---- */

static void print_option(void *ctx, const char *name, const char *value) {
    (void)value;
    (void)fprintf(ctx, "%s ", name);
}

/* The kind of name that the command takes, followed by a dash. */
static const char *name_kind(const struct protocol_command *row) {
    switch (row->word[0]) {
    case 'R':
        return "rule-";
    case 'S':
        return "sensor-";
    case 'U':
        return "user-";
    default:
        return "";
    }
}

/* Prints options='...' what='pool holder': what may follow a command, by name and by position. */
static void print_command(FILE *out, const struct protocol_command *row) {
    (void)fprintf(out, "options='");
    cli_spell_options(row, print_option, out);
    (void)fputs(protocol_command_has(row, PROTOCOL_FOLLOW) ? "--follow " : "", out);
    (void)fputs(cli_takes_secret(row) ? "--secret-file --new-secret-file --ask-secret " : "", out);
    (void)fprintf(out, "' what='");
    for (uint32_t i = 0; i < row->form.count; i++) {
        const struct protocol_argument *argument = &row->form.arguments[i];
        if (argument->token == NULL && argument->part_count == 0) {
            (void)fprintf(out, "%s%s ",
                          row->form.arguments[0].bind == PROTOCOL_B_NAME && i == 0 ? name_kind(row)
                                                                                   : "",
                          argument->name);
        }
    }
    (void)fprintf(out, "' ;;\n");
}

static void print_lower(FILE *out, const char *word) {
    struct cli_text text = {.at = NULL};
    for (; *word != '\0'; word++) {
        char c = (char)(*word >= 'A' && *word <= 'Z' ? *word - 'A' + 'a' : *word);
        cli_text_add(&text, &c, 1);
    }
    (void)fputs(text.failed || text.at == NULL ? "" : text.at, out);
    cli_text_free(&text);
}

/* Local subcommands have up to two words, such as "rule export": prints the second words for a
 * first one. */
static void print_local_seconds(FILE *out, const char *first) {
    size_t len = strlen(first);
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        const char *name = cli_local_row(i)[0];
        if (strncasecmp(name, first, len) == 0 && name[len] == ' ') {
            (void)fprintf(out, "%s ", name + len + 1);
        }
    }
}

/* Prints the first words, each once, or the second words for a first one. */
static void print_words(FILE *out, const char *first) {
    const char *last = "";
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (!cli_offers(row) || cli_is_local(row->word) ||
            (first != NULL && strcmp(row->word, first) != 0) ||
            (first == NULL && strcmp(row->word, last) == 0)) {
            continue;
        }
        last = row->word;
        print_lower(out, first != NULL ? row->sub : row->word);
        (void)fputs(" ", out);
    }
}

static void print_locals(FILE *out) {
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        /* The others begin with the word of a command. */
        if (strchr(cli_local_row(i)[0], ' ') == NULL) {
            (void)fprintf(out, "%s ", cli_local_row(i)[0]);
        }
    }
}

/* Prints the cases of both scripts. They differ only in how words are counted. */
static void print_cases(FILE *out) {
    const char *open = "";
    (void)fprintf(out, "    case $first in\n");
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (!cli_offers(row) || cli_is_local(row->word)) {
            continue;
        }
        if (open[0] != '\0' && strcmp(open, row->word) != 0) {
            (void)fprintf(out, "        *) second='' ;;\n        esac ;;\n");
            open = "";
        }
        if (row->sub_len > 0 && open[0] == '\0') {
            open = row->word;
            (void)fprintf(out, "    ");
            print_lower(out, row->word);
            (void)fprintf(out, ")\n        skip=2 seconds='");
            print_words(out, row->word);
            print_local_seconds(out, row->word);
            (void)fprintf(out, "'\n        case $second in\n");
            if (strcmp(row->word, "RULE") == 0 || strcmp(row->word, "SENSOR") == 0) {
                (void)fprintf(out, "        export) what='' ;;\n"
                                   "        import) options='--dry-run ' what='file ' ;;\n");
            }
        }
        (void)fprintf(out, open[0] != '\0' ? "        " : "    ");
        print_lower(out, row->sub_len > 0 ? row->sub : row->word);
        (void)fprintf(out, ") ");
        print_command(out, row);
    }
    if (open[0] != '\0') {
        (void)fprintf(out, "        *) second='' ;;\n        esac ;;\n");
    }
    (void)fprintf(out,
                  "    backup) options='--keep --no-keys ' what='directory ' ;;\n"
                  "    restore) options='--sensors --no-keys ' what='directory directory ' ;;\n"
                  "    cluster) what='cluster ' ;;\n"
                  "    completion) what='shell ' ;;\n"
                  "    check | dump) what='directory ' ;;\n"
                  "    doctor) options='--config --data --strict ' ;;\n"
                  "    help) what='subcommand ' ;;\n"
                  "    events) options='--after --count --follow --holder --last --pool ' ;;\n"
                  "    export) options='--format --state ' what='pool ' ;;\n"
                  "    history) options='--holder --pool ' what='pool ' ;;\n"
                  "    import) options='--format --header --no-header --map --holder-type "
                  "--scope-column --dry-run --batch --report ' what='pool file ' ;;\n"
                  "    opensynaptic) what='opensynaptic file ' "
                  "options='--pool --dry-run --derive --keep-keys --report --range ' ;;\n"
                  "    run) options='--from --wait --holder --ttl --kill-after --meta "
                  "--renew-command --containment -- ' ;;\n"
                  "    top) options='--once ' ;;\n"
                  "    esac\n");
}

static void print_states(FILE *out) {
    for (unsigned i = KERNEL_RESERVED; i < KERNEL_SHOWN_COUNT; i++) {
        (void)fprintf(out, "%s ", kernel_state_name((enum kernel_state)i));
    }
}

static void print_value_states(FILE *out) {
    for (unsigned i = KERNEL_VALUE_ANY + 1; i < KERNEL_VALUE_STATE_COUNT; i++) {
        (void)fprintf(out, "%s ", kernel_value_state_name((enum kernel_value_state)i));
    }
}

static void print_roles(FILE *out) {
    for (int role = PROTOCOL_READER; role <= PROTOCOL_ADMIN; role++) {
        (void)fprintf(out, "%s ", protocol_role_name((enum protocol_role)role));
    }
}

/* The candidates for the argument called $1, one a line. Names from the server are data: a script must not
 * let the shell expand them. */
static void print_values(FILE *out) {
    (void)fprintf(out,
                  "_tenure_names() { # kind: names from the server that begin with $plain\n"
                  "    command tenure \"${where[@]}\" complete --deadline 500 \"$1\" -- \"$plain\" "
                  "2>/dev/null\n"
                  "}\n"
                  "\n"
                  "_tenure_place() { # whether the argument called $1 is a file or a directory\n"
                  "    case $1 in\n"
                  "    directory | --data) echo directory ;;\n"
                  "    file | -s | --socket | --ca | --cert | --key | --config) echo file ;;\n"
                  "    --secret-file | --new-secret-file | --report) echo file ;;\n"
                  "    esac\n"
                  "}\n"
                  "\n"
                  "_tenure_values() {\n"
                  "    case $1 in\n"
                  "    --from)\n"
                  "        _tenure_names pool\n"
                  "        case $first$plain in run*/*) _tenure_names free-value ;; esac ;;\n"
                  "    pool | --pool) _tenure_names pool ;;\n"
                  "    lease) _tenure_names lease ;;\n"
                  "    'lease|pool/value') _tenure_names lease-or-value ;;\n"
                  "    pool/value) _tenure_names value ;;\n"
                  "    holder | --holder) _tenure_names holder ;;\n"
                  "    rule-id) _tenure_names rule ;;\n"
                  "    sensor-ref) _tenure_names sensor ;;\n"
                  "    user-name) _tenure_names user ;;\n"
                  "    --state)\n"
                  "        case $first in\n"
                  "        pool) printf '%%s\\n' ");
    print_value_states(out);
    (void)fprintf(out, ";;\n"
                       "        *) printf '%%s\\n' ");
    print_states(out);
    (void)fprintf(out, ";;\n"
                       "        esac ;;\n"
                       "    --role) printf '%%s\\n' ");
    print_roles(out);
    (void)fprintf(out, ";;\n"
                       "    --strategy) printf '%%s\\n' lowest random next coldest ;;\n"
                       "    --format)\n"
                       "        case $first in\n"
                       "        import) printf '%%s\\n' csv tsv ;;\n"
                       "        export) printf '%%s\\n' csv tsv sql ;;\n"
                       "        *) printf '%%s\\n' dec hex mac ipv4 ;;\n"
                       "        esac ;;\n"
                       "    --containment) printf '%%s\\n' auto cgroup pidns none ;;\n"
                       "    --sensors) printf '%%s\\n' on off ;;\n"
                       "    cluster) printf '%%s\\n' status step-down close forget ;;\n"
                       "    shell) printf '%%s\\n' bash zsh ;;\n"
                       "    opensynaptic) printf '%%s\\n' import export policy ;;\n"
                       "    subcommand) printf '%%s\\n' exit-codes ");
    print_words(out, NULL);
    print_locals(out);
    (void)fprintf(out, ";;\n    esac\n}\n\n");
}

static void print_settings(FILE *out) {
    for (unsigned i = 0; cli_settings_row(i) != NULL; i++) {
        const char *const *row = cli_settings_row(i);
        (void)fprintf(out, "%s ", row[0][1] == '-' ? row[0] : row[0] + 4);
    }
}

/* ---- bash ---- */

/* Adds an option without a value to a pattern of the shell, once. */
static void flag_add(void *ctx, const char *name, const char *value) {
    struct cli_text *flags = ctx;
    struct cli_text one = {.at = NULL};
    cli_text_printf(&one, " %s |", name);
    if (value[0] == '\0' && !one.failed && (flags->at == NULL || !strstr(flags->at, one.at))) {
        cli_text_put(flags, one.at);
    }
    cli_text_free(&one);
}

/* Prints the options that no value follows as a pattern. */
static void print_flags(FILE *out) {
    struct cli_text flags = {.at = NULL};
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        cli_spell_options(&protocol_table[i], flag_add, &flags);
    }
    (void)fprintf(out,
                  "       %s --json | --watch | --help | --version | --follow | --once) ;;\n"
                  "        --header | --no-header | --dry-run | --strict | --no-keys) ;;\n"
                  "        --ask-secret | --derive | --keep-keys) ;;\n",
                  flags.failed || flags.at == NULL ? "" : flags.at);
    cli_text_free(&flags);
}

/* Finds the subcommand and counts the arguments before the cursor; `where` gets what says which
 * server is meant, `rest` the place of a command after `run ... --`. `word` and `next` are a word and the one
 * after it, in the shell's own counting. */
static void print_scan(FILE *out, const char *from, const char *below, const char *word,
                       const char *next) {
    (void)fprintf(
        out,
        "    for ((i = %s; i < %s; i++)); do\n"
        "        case %s in\n"
        "        -h | -p | -s | -u | --host | --port | --socket | --url | --ca | --cert | --key)\n"
        "            where+=(%s %s)\n"
        "            i=$((i + 1)) ;;\n"
        "        --tls | --insecure | --host=* | --port=* | --socket=* | --url=* | --ca=* | --cert=* | "
        "--key=*)\n"
        "            where+=(%s) ;;\n",
        from, below, word, word, next, word);
    print_flags(out);
    (void)fprintf(out,
                  "        --*=*) ;;\n"
                  "        --)\n"
                  "            if [ \"$first\" = run ]; then\n"
                  "                rest=$((i + 1))\n"
                  "                break\n"
                  "            fi ;;\n"
                  "        --*) i=$((i + 1)) ;;\n"
                  "        *)\n"
                  "            count=$((count + 1))\n"
                  "            if [ -z \"$first\" ]; then first=%s\n"
                  "            elif [ -z \"$second\" ]; then second=%s; fi ;;\n"
                  "        esac\n"
                  "    done\n",
                  word, word);
}

/* bash splits a line at colons and equal signs, too: `words` are those that a user sees, and `lead` is the part
 * of the last one that readline keeps. `plain` is the last one without its quotation. */
static void print_bash_words(FILE *out) {
    (void)fputs("    local line=${COMP_LINE-}\n"
                "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
                "        if [[ -z ${COMP_LINE-} || $i == 0 || $line == [[:blank:]]* ]]; then\n"
                "            words+=(\"${COMP_WORDS[i]}\") lead=''\n"
                "        else\n"
                "            lead=${words[${#words[@]} - 1]}\n"
                "            words[${#words[@]} - 1]+=${COMP_WORDS[i]}\n"
                "        fi\n"
                "        line=${line#\"${line%%[![:blank:]]*}\"}\n"
                "        line=${line#\"${COMP_WORDS[i]}\"}\n"
                "    done\n"
                "    cword=$((${#words[@]} - 1))\n"
                "    for ((i = 0; i < cword; i++)); do # what is meant, without evaluating it\n"
                "        case ${words[i]} in\n"
                "        [\\\"\\']*) words[i]=${words[i]:1} words[i]=${words[i]%[\\\"\\']} ;;\n"
                "        *\\\\*) IFS= read 'words[i]' <<<\"${words[i]}\" ;;\n"
                "        esac\n"
                "    done\n"
                "    cur=${words[cword]} prev=${words[cword - 1]}\n"
                "    [[ -n $lead && ${COMP_WORDS[COMP_CWORD]} == [:=]* ]] && lead=$cur\n"
                "    case $cur in\n"
                "    [\\\"\\']*) open=${cur:0:1} plain=${cur:1} ;;\n"
                "    *) IFS= read plain <<<\"$cur\" ;; # which takes away backslashes\n"
                "    esac\n"
                "    if [[ $plain == --*=* ]]; then\n"
                "        option=${plain%%=*}= prev=${plain%%=*} plain=${plain#*=}\n"
                "    fi\n",
                out);
}

/* Names of files are data, too. The shell matches them with a pattern of which only the last character is not quoted,
 * whatever the user has set. */
static void print_bash_paths(FILE *out) {
    (void)fputs(
        "_tenure_paths() ( # file or directory: those that begin with $plain\n"
        "    shopt -s nullglob\n"
        "    shopt -u failglob nocaseglob\n"
        "    set +f\n"
        "    GLOBIGNORE='' begin=$plain\n"
        "    [[ $cur == \\~/* ]] && begin=$HOME/${plain:2}\n"
        "    for path in \"$begin\"*; do\n"
        "        if [ -d \"$path\" ]; then path+=/\n"
        "        elif [ \"$1\" = directory ]; then continue; fi\n"
        "        [[ $path == *$'\\n'* || /$path == */./ || /$path == */../ ]] && continue\n"
        "        printf '%s\\n' \"$plain${path#\"$begin\"}\"\n"
        "    done\n"
        ")\n\n"
        "_tenure_argument() { # candidates for the argument called $1\n"
        "    local place\n"
        "    place=$(_tenure_place \"$1\")\n"
        "    if [ -n \"$place\" ]; then _tenure_paths \"$place\"; else _tenure_values \"$1\"; fi\n"
        "}\n\n",
        out);
}

/* A candidate is quoted as a word of the shell; only a ~ that the user typed keeps its meaning. Inside an open
 * quotation, only those are offered that cannot end it. */
static void print_bash_offer(FILE *out) {
    (void)fputs("    while IFS= read -r name; do\n"
                "        [[ -n $name && $name == \"$plain\"* ]] || continue\n"
                "        if [[ -n $open ]]; then\n"
                "            [[ $name == *[!a-zA-Z0-9_./:@%+=,\\ -]* ]] && continue\n"
                "            quoted=$name\n"
                "        elif [[ $cur == \\~/* ]]; then\n"
                "            printf -v quoted %q \"${name:2}\"\n"
                "            quoted=\\~/$quoted\n"
                "        else\n"
                "            printf -v quoted %q \"$name\"\n"
                "        fi\n"
                "        quoted=$option$quoted\n"
                "        COMPREPLY+=(\"${quoted#\"$lead\"}\")\n"
                "    done <<<\"$found\"\n"
                "    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then\n"
                "        compopt -o nospace 2>/dev/null # there is more to type\n"
                "    fi\n"
                "}\n\n"
                "complete -F _tenure tenure\n",
                out);
}

static void print_bash(FILE *out) {
    (void)fprintf(out, "# bash completion for tenure, generated by `tenure completion bash`\n\n");
    print_values(out);
    print_bash_paths(out);
    (void)fprintf(out,
                  "_tenure() {\n"
                  "    local first='' second='' options='' what='' seconds='' list='' found='' i\n"
                  "    local cur prev plain open='' lead='' option='' name quoted cword\n"
                  "    local count=0 skip=1 rest='' IFS=$' \\t\\n'\n"
                  "    local -a places where=() words=()\n"
                  "    COMPREPLY=()\n");
    print_bash_words(out);
    print_scan(out, "1", "cword", "\"${words[i]}\"", "\"${words[i + 1]}\"");
    print_cases(out);
    (void)fprintf(out, "    if [ -n \"$rest\" ]; then\n"
                       "        if [[ $rest == \"$cword\" && $plain != */* ]]; then\n"
                       "            found=$(compgen -c -- \"$plain\")\n"
                       "        else\n"
                       "            found=$(_tenure_paths file)\n"
                       "        fi\n"
                       "    elif [[ $prev == -* && -n $(_tenure_place \"$prev\") ]]; then\n"
                       "        found=$(_tenure_argument \"$prev\")\n"
                       "    elif [ -z \"$first\" ]; then\n"
                       "        list=\"");
    print_words(out, NULL);
    print_locals(out);
    (void)fprintf(out, "\"\n"
                       "        [[ $cur == -* ]] && list='--version --help ");
    print_settings(out);
    (void)fprintf(out, "'\n"
                       "    elif [ \"$skip\" = 2 ] && [ -z \"$second\" ]; then\n"
                       "        list=$seconds\n"
                       "    elif [[ $prev == -* ]] && found=$(_tenure_values \"$prev\") && "
                       "[ -n \"$found\" ]; then\n"
                       "        :\n"
                       "    elif [[ $cur == -* ]]; then\n"
                       "        list=\"$options --help ");
    print_settings(out);
    (void)fprintf(out, "\"\n"
                       "    else\n"
                       "        read -ra places <<<\"$what\"\n"
                       "        found=$(_tenure_argument \"${places[count - skip]-}\")\n"
                       "    fi\n"
                       "    [ -z \"$list\" ] || found=${list// /$'\\n'}\n");
    print_bash_offer(out);
}

/* ---- zsh ---- */

static void print_zsh(FILE *out) {
    (void)fprintf(
        out,
        "#compdef tenure\n# zsh completion for tenure, generated by `tenure completion zsh`\n\n");
    print_values(out);
    (void)fprintf(out,
                  "_tenure() {\n"
                  "    local cur=${words[CURRENT]} prev=${words[CURRENT - 1]}\n"
                  "    local plain first='' second='' options='' what='' seconds='' i\n"
                  "    local count=0 skip=1 rest='' place\n"
                  "    local -a found places where\n"
                  "    if [[ $PREFIX == --*=* ]]; then # what follows is a word of its own\n"
                  "        prev=${PREFIX%%%%=*} IPREFIX+=${PREFIX%%%%=*}= PREFIX=${PREFIX#*=}\n"
                  "        cur=$PREFIX\n"
                  "    fi\n"
                  "    plain=${(Q)PREFIX} # without the quotation mark before it\n");
    print_scan(out, "2", "CURRENT", "\"${(Q)words[i]}\"", "\"${(Q)words[i + 1]}\"");
    print_cases(out);
    (void)fprintf(out, "    if [[ -n $rest ]]; then\n"
                       "        words=(\"${(@)words[rest,-1]}\")\n"
                       "        CURRENT=$((CURRENT - rest + 1))\n"
                       "        _normal\n"
                       "        return\n"
                       "    elif [[ $prev == -* && -n $(_tenure_place $prev) ]]; then\n"
                       "        place=$(_tenure_place $prev)\n"
                       "    elif [[ -z $first ]]; then\n"
                       "        found=(");
    print_words(out, NULL);
    print_locals(out);
    (void)fprintf(out, ")\n"
                       "        [[ $cur == -* ]] && found=(--version --help ");
    print_settings(out);
    (void)fprintf(out, ")\n"
                       "    elif [[ $skip == 2 && -z $second ]]; then\n"
                       "        found=(${=seconds})\n"
                       "    elif [[ $prev == -* && -n $(_tenure_values $prev) ]]; then\n"
                       "        found=(${(f)\"$(_tenure_values $prev)\"})\n"
                       "    elif [[ $cur == -* ]]; then\n"
                       "        found=(${=options} --help ");
    print_settings(out);
    (void)fprintf(out, ")\n"
                       "    else\n"
                       "        places=(${=what})\n"
                       "        i=${places[count - skip + 1]}\n"
                       "        place=$(_tenure_place \"$i\")\n"
                       "        [[ -z $place ]] && found=(${(f)\"$(_tenure_values \"$i\")\"})\n"
                       "    fi\n"
                       "    case $place in\n"
                       "    directory) _files -/ ;;\n"
                       "    file) _files ;;\n"
                       "    *)\n"
                       "        if (( $#found == 1 )) && [[ $found[1] == */ ]]; then\n"
                       "            compadd -S '' -a found\n"
                       "        else\n"
                       "            compadd -a found\n"
                       "        fi ;;\n"
                       "    esac\n"
                       "}\n\n"
                       "if [ \"$funcstack[1]\" = _tenure ]; then\n"
                       "    _tenure \"$@\"\n"
                       "else\n"
                       "    compdef _tenure tenure\n"
                       "fi\n");
}

int cli_completion(int argc, char **argv) {
    if (argc == 1 && strcmp(argv[0], "bash") == 0) {
        print_bash(stdout);
        return CLI_OK;
    }
    if (argc == 1 && strcmp(argv[0], "zsh") == 0) {
        print_zsh(stdout);
        return CLI_OK;
    }
    (void)fprintf(stderr, "usage: tenure completion bash|zsh\n"
                          "try: source <(tenure completion bash)\n");
    return CLI_USAGE;
}
