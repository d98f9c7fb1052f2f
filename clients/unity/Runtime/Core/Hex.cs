using System;
using System.Globalization;

namespace Scoregate
{
    /// <summary>Lower-case hexadecimal digits.</summary>
    public static class Hex
    {
        private const string Digits = "0123456789abcdef";

        /// <summary>Return two digits for each byte.</summary>
        public static string Of(byte[] bytes)
        {
            var digits = new char[bytes.Length * 2];
            for (var at = 0; at < bytes.Length; at++)
            {
                digits[2 * at] = Digits[bytes[at] >> 4];
                digits[(2 * at) + 1] = Digits[bytes[at] & 15];
            }

            return new string(digits);
        }

        /// <summary>Return the number of 1 to 16 digits, in upper or lower case.</summary>
        public static ulong ToWord(string digits)
        {
            if (digits.Length < 1 || digits.Length > 16)
            {
                throw new ArgumentException("1 to 16 hexadecimal digits were expected");
            }

            ulong word = 0;
            foreach (var digit in digits)
            {
                var value = ValueOf(digit);
                if (value < 0)
                {
                    throw new ArgumentException("no hexadecimal digit: " + ((int)digit).ToString(CultureInfo.InvariantCulture));
                }

                word = (word << 4) | (uint)value;
            }

            return word;
        }

        /// <summary>Return the value of a digit, or -1.</summary>
        internal static int ValueOf(char digit)
        {
            if (digit >= '0' && digit <= '9')
            {
                return digit - '0';
            }

            var letter = (char)(digit | 32);
            return letter >= 'a' && letter <= 'f' && digit < 128 ? letter - 'a' + 10 : -1;
        }
    }
}
