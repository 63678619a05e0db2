#if 0
no1
#elif 1
yes1
#elif 1/0
no2
#else
no3
#endif
#ifdef A
no4
#elifdef B
no5
#elifndef C
yes2
#else
no6
#endif
#define A(x) x
#ifdef A trailing
yes3
#elifdef
no7
#endif
#ifndef A
no8
#elif A(0)
no9
#else
yes4
#endif
#undef A trailing
#ifdef A
no10
#endif
# if 0 // comment \
no11
no12
#endif
#if 1 /* over
two lines */ && 0
no13
#else /* and
again */
yes5
#endif
#if 1\
2 == 12 && \
  1
yes6
#endif
#define LONG 1\
0
#if LONG == 10
yes7
#endif
#define N (4)
#if N == 4 && N(1)
no14
#elif N == 4
yes8
#endif
#if(1)
yes9
#endif
#if!1
no15
#else
yes10
#endif
#if 0
#if 1/0
no16
#else
no17
#endif
#else
yes11
#endif
#ifdef
no18
#else
yes12
#endif
#ifndef
no19
#endif
#if 1 +
no20
#else
yes13
#endif
/* a comment
   before */ #define LATE
#ifdef LATE
yes14
#endif
