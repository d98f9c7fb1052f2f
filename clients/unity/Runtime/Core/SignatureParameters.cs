namespace Scoregate
{
    /// <summary>The parameters of a signature (docs/reference/signatures.md). Times are Unix seconds.</summary>
    public sealed class SignatureParameters
    {
        /// <summary>When it was made.</summary>
        public long Created { get; set; }

        /// <summary>Until when it is valid, 1 to 300 seconds after <see cref="Created"/>.</summary>
        public long Expires { get; set; }

        /// <summary>16 to 64 characters of A-Z a-z 0-9 _ -, new for each signature.</summary>
        public string Nonce { get; set; }

        /// <summary>The ticket of the run.</summary>
        public string KeyId { get; set; }

        /// <summary>What it is for.</summary>
        public string Tag { get; set; } = "scoregate-run";

        /// <summary>The algorithm, or null to leave it out.</summary>
        public string Alg { get; set; } = "hmac-sha256";
    }
}
