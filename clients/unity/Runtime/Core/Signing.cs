using System;
using System.Collections.Generic;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace Scoregate
{
    /// <summary>
    /// Signs requests by HTTP Message Signatures (RFC 9421) as Scoregate narrows them. It reads no clock and draws
    /// no random numbers.
    /// </summary>
    public static class Signing
    {
        private const string Components =
            "(\"@method\" \"@authority\" \"@path\" \"@query\" \"content-type\" \"content-digest\")";

        /// <summary>Return the value of <c>Content-Digest</c> for a body.</summary>
        public static string ContentDigest(byte[] body)
        {
            using (var sha256 = SHA256.Create())
            {
                return "sha-256=:" + Convert.ToBase64String(sha256.ComputeHash(body)) + ":";
            }
        }

        /// <summary>Return what follows the label in <c>Signature-Input</c>.</summary>
        /// <exception cref="ArgumentException">A parameter has a character that cannot be signed.</exception>
        public static string SignatureParams(SignatureParameters parameters)
        {
            var alg = parameters.Alg == null ? "" : ";alg=\"" + Visible(parameters.Alg) + "\"";
            return Components
                + ";created=" + parameters.Created.ToString(CultureInfo.InvariantCulture)
                + ";expires=" + parameters.Expires.ToString(CultureInfo.InvariantCulture)
                + ";nonce=\"" + Visible(parameters.Nonce) + "\""
                + ";keyid=\"" + Visible(parameters.KeyId) + "\""
                + alg
                + ";tag=\"" + Visible(parameters.Tag) + "\"";
        }

        /// <summary>Return the text to sign (RFC 9421, section 2.5).</summary>
        /// <exception cref="ArgumentException">A value has a character that cannot be signed.</exception>
        public static string SignatureBase(SignedTarget target, byte[] body, SignatureParameters parameters)
        {
            var lines = new[]
            {
                "\"@method\": " + Printable(target.Method),
                "\"@authority\": " + Printable(target.Authority),
                "\"@path\": " + Printable(target.Path),
                "\"@query\": ?" + Printable(target.Query),
                "\"content-type\": " + Printable(target.ContentType),
                "\"content-digest\": " + ContentDigest(body),
                "\"@signature-params\": " + SignatureParams(parameters),
            };
            return string.Join("\n", lines);
        }

        /// <summary>Return the header fields that sign a request with the key of a run, in the order to send them.</summary>
        /// <exception cref="ArgumentException">A value has a character that cannot be signed.</exception>
        public static IReadOnlyList<KeyValuePair<string, string>> Sign(
            SignedTarget target, byte[] body, SignatureParameters parameters, byte[] key)
        {
            var text = SignatureBase(target, body, parameters);
            string signature;
            using (var hmac = new HMACSHA256(key))
            {
                signature = Convert.ToBase64String(hmac.ComputeHash(Encoding.ASCII.GetBytes(text)));
            }

            return new[]
            {
                new KeyValuePair<string, string>("Content-Type", target.ContentType),
                new KeyValuePair<string, string>("Content-Digest", ContentDigest(body)),
                new KeyValuePair<string, string>("Signature-Input", "sg=" + SignatureParams(parameters)),
                new KeyValuePair<string, string>("Signature", "sg=:" + signature + ":"),
            };
        }

        private static string Visible(string value)
        {
            if (string.IsNullOrEmpty(value) || value.IndexOfAny(new[] { '"', '\\', ' ' }) >= 0)
            {
                throw new ArgumentException("a parameter of a signature is empty, or has a quote, backslash or space");
            }

            return Printable(value);
        }

        private static string Printable(string value)
        {
            foreach (var unit in value)
            {
                if (unit < ' ' || unit > '~')
                {
                    throw new ArgumentException("a signed value has a character that is not printable ASCII");
                }
            }

            return value;
        }
    }
}
