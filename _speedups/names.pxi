# The names of the open objects of one text, so that a repeat is seen at once and at a cost that stays near linear.
# One array holds the names of all open objects, innermost last. An object of few names is searched in order; a larger
# one gets a table. Hashes are over the name after escapes and are keyed by the process, so that no text can be made to
# collide. Included by envelope.pyx after text.pxi.

from libc.stdint cimport UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, realloc

cdef extern from *:
    """
    #if defined(__SIZEOF_INT128__)
    static inline uint64_t trunkline_fold(uint64_t a, uint64_t b) {
        const unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    #else
    static inline uint64_t trunkline_fold(uint64_t a, uint64_t b) {
        const uint64_t ah = a >> 32, al = (uint32_t)a, bh = b >> 32, bl = (uint32_t)b;
        const uint64_t low = al * bl, m1 = ah * bl, m2 = al * bh;
        const uint64_t carry = ((low >> 32) + (uint32_t)m1 + (uint32_t)m2) >> 32;
        return (a * b) ^ (ah * bh + (m1 >> 32) + (m2 >> 32) + carry);
    }
    #endif

    static inline uint64_t trunkline_word(const unsigned char *p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return word;
    }

    /* A keyed hash by folded multiplication, as in the wyhash family; both keys are secret and odd. */
    static inline uint64_t trunkline_hash(const unsigned char *p, size_t size, const uint64_t *key) {
        uint64_t state = key[0] ^ size, last = 0;
        size_t left = size;
        for (; left > 8; left -= 8, p += 8) state = trunkline_fold(state ^ trunkline_word(p), key[1]);
        memcpy(&last, p, left);
        return trunkline_fold(state ^ last, key[1]) ^ trunkline_fold(last ^ key[1], state | 1);
    }
    """
    uint64_t trunkline_hash(const unsigned char* p, size_t size, const uint64_t* key) noexcept nogil

cdef enum:
    FEW = 12  # names that are searched in order
    FIRST_NAMES = 64

cdef struct Name:
    uint64_t hash
    Place start  # its opening quote
    Place end

cdef struct Level:
    size_t first  # the object's first name in the array
    size_t mask  # the table's size - 1
    uint32_t* table  # index of a name + 1, 0 for free; NULL while the names are few

cdef struct Names:
    Name* all
    size_t count
    size_t room
    Level* levels
    int level
    Name inline_names[FIRST_NAMES]


cdef uint64_t KEY[2]
KEY[0] = (<uint64_t>hash(b"the first key of the names") * 2 + 1) & 0xFFFFFFFFFFFFFFFF
KEY[1] = (<uint64_t>hash(b"the second key of the names") * 2 + 1) & 0xFFFFFFFFFFFFFFFF


cdef bint names_open(Names* names, int depth) noexcept nogil:
    names.all = names.inline_names
    names.room = FIRST_NAMES
    names.count = 0
    names.level = -1
    names.levels = <Level*>malloc(depth * sizeof(Level))
    return names.levels != NULL


cdef void names_close(Names* names) noexcept nogil:
    while names.level >= 0:
        drop_level(names)
    free(names.levels)
    if names.all != names.inline_names:
        free(names.all)


cdef void drop_level(Names* names) noexcept nogil:
    cdef Level* level = &names.levels[names.level]
    if level.table != NULL:
        free(level.table)
    names.count = level.first
    names.level -= 1


cdef bint names_enter(Text* t) noexcept nogil:
    """An object with members begins. Never more than `depth` are open."""
    cdef Names* names = <Names*>t.names
    names.level += 1
    names.levels[names.level].first = names.count
    names.levels[names.level].table = NULL
    return True


cdef void names_leave(Text* t) noexcept nogil:
    drop_level(<Names*>t.names)


cdef bint plain_hash(Text* t, Place start, Place end, uint64_t* to) noexcept nogil:
    """The hash of the name from quote to quote, which was read last. False: out of memory, noted."""
    cdef size_t size = end - start - 2
    cdef unsigned char* plain
    if not t.escaped:
        to[0] = trunkline_hash(start + 1, size, KEY)
        return True
    plain = <unsigned char*>malloc(size)
    if plain == NULL:
        refuse(t, start, NO_MEMORY)
        return False
    to[0] = trunkline_hash(plain, unescape(start + 1, end - 1, plain), KEY)
    free(plain)
    return True


cdef bint names_take(Text* t, Place start, Place end) noexcept nogil:
    """Add the name from quote to quote to the innermost object. False: a repeat or no memory, noted."""
    cdef Names* names = <Names*>t.names
    cdef Level* level = &names.levels[names.level]
    cdef size_t count = names.count - level.first
    cdef Name name
    cdef size_t i
    name.start = start
    name.end = end
    if not plain_hash(t, start, end, &name.hash):
        return False
    if level.table == NULL and count < FEW:
        for i in range(level.first, names.count):
            if names.all[i].hash == name.hash and same_name(t, &names.all[i], &name):
                return False
    elif not table_take(t, names, level, &name):
        return False
    if names.count == names.room and not more_room(names):
        refuse(t, start, NO_MEMORY)
        return False
    names.all[names.count] = name
    names.count += 1
    return True


cdef bint table_take(Text* t, Names* names, Level* level, Name* name) noexcept nogil:
    """Look a name up in the object's table and take its place there, at the index that it is about to get."""
    cdef size_t slot
    if (level.table == NULL or (names.count - level.first) * 2 > level.mask) and not grow_table(names, level):
        refuse(t, name.start, NO_MEMORY)
        return False
    slot = name.hash & level.mask
    while level.table[slot] != 0:
        if names.all[level.table[slot] - 1].hash == name.hash and same_name(t, &names.all[level.table[slot] - 1], name):
            return False
        slot = (slot + 1) & level.mask
    level.table[slot] = <uint32_t>(names.count + 1)
    return True


cdef bint grow_table(Names* names, Level* level) noexcept nogil:
    cdef size_t size = 64 if level.table == NULL else (level.mask + 1) * 4
    cdef size_t i, slot
    cdef uint32_t* table
    if names.count >= UINT32_MAX - 1:
        return False
    table = <uint32_t*>calloc(size, sizeof(uint32_t))
    if table == NULL:
        return False
    for i in range(level.first, names.count):
        slot = names.all[i].hash & (size - 1)
        while table[slot] != 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = <uint32_t>(i + 1)
    free(level.table)
    level.table = table
    level.mask = size - 1
    return True


cdef bint more_room(Names* names) noexcept nogil:
    cdef Name* moved
    if names.all == names.inline_names:
        moved = <Name*>malloc(names.room * 4 * sizeof(Name))
        if moved != NULL:
            memcpy(moved, names.all, names.count * sizeof(Name))
    else:
        moved = <Name*>realloc(names.all, names.room * 2 * sizeof(Name))
    if moved == NULL:
        return False
    names.room *= 4 if names.all == names.inline_names else 2
    names.all = moved
    return True


cdef bint same_name(Text* t, Name* a, Name* b) noexcept nogil:
    """Whether two names of one hash stand for the same text; a repeat is noted, and so is want of memory."""
    cdef Py_ssize_t one = a.end - a.start - 2, other = b.end - b.start - 2
    cdef unsigned char* plain
    if one == other and memcmp(a.start + 1, b.start + 1, one) == 0:
        refuse(t, b.start, TWICE)
        return True
    plain = <unsigned char*>malloc(one + other + 1)
    if plain == NULL:
        refuse(t, b.start, NO_MEMORY)
        return True
    one = unescape(a.start + 1, a.end - 1, plain)
    other = unescape(b.start + 1, b.end - 1, plain + one)
    if one != other or memcmp(plain, plain + one, one) != 0:
        free(plain)
        return False
    free(plain)
    refuse(t, b.start, TWICE)
    return True
