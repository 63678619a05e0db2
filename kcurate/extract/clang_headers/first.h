// Precompiled, since most files include these: reading them takes a second, and a tenth of one from the binary form.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>
