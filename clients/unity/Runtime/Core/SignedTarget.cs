namespace Scoregate
{
    /// <summary>What a signature covers besides the body.</summary>
    public sealed class SignedTarget
    {
        /// <summary>The method, in upper case.</summary>
        public string Method { get; set; } = "POST";

        /// <summary>The host in lower case, with its port unless that is the scheme's own.</summary>
        public string Authority { get; set; }

        /// <summary>The path as sent.</summary>
        public string Path { get; set; }

        /// <summary>The query as sent, without its question mark; empty for none.</summary>
        public string Query { get; set; } = "";

        /// <summary>The media type of the body.</summary>
        public string ContentType { get; set; } = "application/json";
    }
}
