#define EMPTY
#define ZERO 0
#define SEVEN 7
#define BIG (1u << 31)
#define NEGATIVE -1
#define SELF SELF
#define PING PONG
#define PONG PING
#define ASKS defined(SEVEN)
#define ASKS_BARE defined
#define OF(x) ((x) * 2)
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define NOTHING() 5
#define CAT(a, b) a ## b
#define XCAT(a, b) CAT(a, b)
#define SECOND(a, b, ...) b
#define PROBE_SEVEN 0, 1
#define ENABLED(name) XSECOND(XCAT(PROBE_, name), 0, 0)
#define XSECOND(...) SECOND(__VA_ARGS__)
#define COUNT(...) COUNT_(0, ## __VA_ARGS__, 3, 2, 1, 0)
#define COUNT_(a, b, c, d, n, ...) n
#define NAMED(first, rest...) (first + SECOND(0, rest, 0))
#define STRING(x) #x
#define HAS(x) __has_include(x)
#define HEADER <vector>
#define ALIAS OF
#define VERSION(a, b) ((a) * 100 + (b))
#define LOOP(x) x + LOOP(x)
#define OPEN (
#define DOTS 1.5
#define BROKEN(
