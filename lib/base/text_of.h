/* A macro's number as text, so that help and messages name the number that the code has. */
#ifndef TXL_TEXT_OF_H
#define TXL_TEXT_OF_H

#define TEXT_OF(number) TEXT_OF_EXPANDED(number)
#define TEXT_OF_EXPANDED(number) #number

#endif
