// Everything in it is there from the start.
#pragma once
