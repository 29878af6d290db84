/* Interned names of holders and users: one record a name, counted references. */
#include "kernel/state.h"

uint32_t kernel_name_cost(const struct kernel *k, struct tn_bytes text, uint32_t *names) {
    if (kernel_index_text(k, TEXT_NAME, text) != TN_NONE) {
        return 0;
    }
    *names += 1;
    return tn_text_chunks(text.len);
}

uint32_t kernel_name_hold(struct kernel *k, struct tn_bytes text) {
    TN_ASSERT(text.len > 0 && text.len <= KERNEL_HOLDER_MAX);
    uint32_t slot = kernel_index_text(k, TEXT_NAME, text);
    if (slot != TN_NONE) {
        TN_ASSERT(name_at(k, slot)->refs > 0 && name_at(k, slot)->refs < UINT32_MAX);
        name_mut(k, slot)->refs++;
        return slot;
    }
    slot = tn_table_take(&k->tables[TABLE_NAME]);
    TN_ASSERT(slot != TN_NONE);
    struct name *n = name_mut(k, slot);
    n->text = tn_text_put(&k->tables[TABLE_TEXT], text);
    n->refs = 1;
    n->first_lease = TN_NONE;
    n->job = TN_NONE;
    kernel_index_text_add(k, TEXT_NAME, slot);
    return slot;
}

void kernel_name_drop(struct kernel *k, uint32_t name) {
    struct name *n = name_mut(k, name);
    TN_ASSERT(n->refs > 0);
    if (--n->refs > 0) {
        return;
    }
    TN_ASSERT(n->first_lease == TN_NONE && n->job == TN_NONE);
    kernel_index_text_remove(k, TEXT_NAME, name);
    tn_text_drop(&k->tables[TABLE_TEXT], n->text);
    tn_table_give(&k->tables[TABLE_NAME], name);
    k->names_freed++;
}
