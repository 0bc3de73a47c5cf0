/* Opens a store, puts, gets, deletes, opens it again. */

#include <pagecast_kv.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) \
    if (!(condition)) { \
        fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, pagecast_message()); \
        return 1; \
    }
#define OK(call) CHECK((call) == PAGECAST_STATUS_OK)

int main(int count, char **words) {
    CHECK(count == 2);
    pagecast_kv *store = NULL, *second = NULL;
    uint8_t value[16], flag = 9;
    size_t length = 99;
    char key[16];
    OK(pagecast_kv_open(words[1], 1 << 20, &store));
    CHECK(pagecast_kv_open(words[1], 0, &second) == PAGECAST_STATUS_IN_USE && second == NULL);
    for (int i = 0; i < 60; i++) {
        int bytes = snprintf(key, sizeof key, "key %04d", i);
        OK(pagecast_kv_put(store, (uint8_t *)key, (size_t)bytes, (uint8_t *)"value", 5));
    }
    OK(pagecast_kv_get(store, (uint8_t *)"key 0023", 8, value, sizeof value, &length, &flag));
    CHECK(flag == 1 && length == 5 && memcmp(value, "value", 5) == 0);
    OK(pagecast_kv_get(store, (uint8_t *)"key 0023", 8, value, 2, &length, &flag));
    CHECK(flag == 1 && length == 5);
    OK(pagecast_kv_delete(store, (uint8_t *)"key 0023", 8, &flag));
    CHECK(flag == 1);
    OK(pagecast_kv_delete(store, (uint8_t *)"key 0023", 8, &flag));
    CHECK(flag == 0);
    CHECK(pagecast_kv_put(store, NULL, 3, value, 1) == PAGECAST_STATUS_INVALID_ARGUMENT);
    OK(pagecast_kv_close(store));

    OK(pagecast_kv_open(words[1], 0, &store));
    OK(pagecast_kv_get(store, (uint8_t *)"key 0023", 8, value, sizeof value, &length, &flag));
    CHECK(flag == 0 && length == 0);
    OK(pagecast_kv_get(store, (uint8_t *)"key 0059", 8, NULL, 0, &length, &flag));
    CHECK(flag == 1 && length == 5);
    OK(pagecast_kv_close(store));
    puts("done");
    return 0;
}
